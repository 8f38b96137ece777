/** Roles of accounts, for clients that show only what a role may do. */
export { hasRole } from '../../domain/access/roles.ts';
