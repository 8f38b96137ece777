/**
 * Whether the first steps are still of use: no type is offered, or the administrator has no ssh
 * key.
 */
import { useQuery } from '@tanstack/react-query';
import { catalogQuery } from '../../app/queries.ts';
import type { Session } from '../../app/session.ts';
import { sshKeysQuery } from '../access/queries.ts';

export function useIsNew({ isAdmin }: Session): boolean {
  const catalog = useQuery({ ...catalogQuery, enabled: isAdmin }).data;
  const sshKeys = useQuery({ ...sshKeysQuery, enabled: isAdmin }).data;
  return isAdmin && (catalog?.length === 0 || sshKeys?.length === 0);
}
