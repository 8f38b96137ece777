/** The environment of an instance's programs, from Berth's own variables and later layers. */
import { mergeEnvironment, type Environment } from '../../domain/environment.ts';
import type { InstanceId } from '../../domain/ids.ts';
import { notebookPath } from '../../domain/public-instance.ts';

/** Names begin with `BERTH_`, which no other layer may set. */
const ownVariables = (id: InstanceId): Environment =>
  new Map([
    ['BERTH_INSTANCE_ID', id],
    ['BERTH_BASE_URL', notebookPath(id)],
  ]);

/** Written to `/etc/berth/env`, and added to each command by API. */
export const environmentOf = (id: InstanceId): Environment => mergeEnvironment(ownVariables(id));
