/**
 * Namespace and rights of a new region. Without this check a right that is missing shows with the
 * first launch, stop or command that needs it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { RulesReview } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import type { KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import type { ClusterContext } from './cluster-context.ts';
import { noNamespace, reject } from './cluster-faults.ts';
import { readDevices } from './device-slices.ts';

export interface Right {
  /** `''`: the core of the API. */
  group: string;
  resource: string;
  verb: string;
}

type Rule = NonNullable<RulesReview['status']>['resourceRules'][number];

const CHANGED = ['create', 'patch', 'delete'];
const FOLLOWED = ['get', 'list', 'watch', ...CHANGED];

/** Snapshots and figures of use are capabilities, which a region may lack. */
export function neededRights({
  reach,
  networkImage,
  deviceClaims = [],
  autoscaling,
}: Pick<KubernetesEngineSettings, 'reach' | 'networkImage' | 'deviceClaims' | 'autoscaling'>): Right[] {
  const rightsTo = (group: string, resource: string, verbs: readonly string[]): Right[] =>
    verbs.map((verb) => ({ group, resource, verb }));
  return [
    ...rightsTo('apps', 'statefulsets', FOLLOWED),
    ...rightsTo('', 'pods', FOLLOWED),
    ...rightsTo('', 'secrets', CHANGED),
    ...rightsTo('', 'services', CHANGED),
    ...rightsTo('networking.k8s.io', 'networkpolicies', FOLLOWED),
    ...rightsTo('', 'persistentvolumeclaims', FOLLOWED),
    ...rightsTo('', 'events', ['list']),
    // Servers ask for `get` or for `create`, by version.
    ...rightsTo('', 'pods/exec', ['get', 'create']),
    ...(reach === 'portForward' ? rightsTo('', 'pods/portforward', ['get', 'create']) : []),
    ...(networkImage === undefined ? [] : rightsTo('', 'pods/ephemeralcontainers', ['patch'])),
    ...rightsTo('', 'pods/log', ['get']),
    ...rightsTo('', 'nodes', ['list']),
    ...rightsTo('storage.k8s.io', 'storageclasses', ['get', 'list']),
    ...(autoscaling === undefined ? [] : rightsTo('policy', 'poddisruptionbudgets', CHANGED)),
    ...(deviceClaims.length === 0
      ? []
      : [
          ...rightsTo('resource.k8s.io', 'resourceclaimtemplates', ['create', 'patch']),
          ...rightsTo('resource.k8s.io', 'resourceslices', ['list']),
          ...rightsTo('resource.k8s.io', 'deviceclasses', ['list']),
        ]),
  ];
}

export const missingRights = (needed: readonly Right[], rules: readonly Rule[]): Right[] =>
  needed.filter(({ group, resource, verb }) => !rules.some((rule) => grants(rule, { group, resource, verb })));

function grants({ apiGroups = [], resources: names = [], resourceNames = [], verbs }: Rule, right: Right): boolean {
  const has = (all: readonly string[], one: string): boolean => all.includes(one) || all.includes('*');
  const [, subresource] = right.resource.split('/');
  const isNamed = has(names, right.resource) || (subresource !== undefined && names.includes(`*/${subresource}`));
  return isNamed && resourceNames.length === 0 && has(apiGroups, right.group) && has(verbs, right.verb);
}

const MAX_TRIES = 5;
const PAUSE_MS = 400;

/** None where the cluster does not list all rules: one that it does not list may grant a right. */
async function missingNow(cluster: Cluster, needed: readonly Right[], signal: AbortSignal): Promise<Right[]> {
  const spec = { namespace: cluster.namespace };
  const review = await cluster.create(resources.rulesReviews, { spec }, signal).catch((error: unknown) => {
    if (isFailure(error, 'forbidden')) return null;
    throw error;
  });
  return review?.status?.incomplete === false ? missingRights(needed, review.status.resourceRules) : [];
}

/** Throws an `EngineFault` that says what is missing. */
export async function checkRegion(
  { cluster, settings }: Pick<ClusterContext, 'cluster' | 'settings'>,
  signal: AbortSignal,
): Promise<void> {
  const { namespace } = cluster;
  const needed = neededRights(settings);
  let missing = await missingNow(cluster, needed, signal);
  // A server learns of a new role a moment later.
  for (let tries = 1; tries < MAX_TRIES && missing.length > 0; tries++) {
    await delay(PAUSE_MS, undefined, { signal });
    missing = await missingNow(cluster, needed, signal);
  }
  if (missing.length > 0)
    throw reject(
      `the cluster does not allow Berth to ${textOf(missing)} in namespace ${namespace}; apply deploy/kubernetes/rbac.yaml for this namespace`,
    );
  const secret = { metadata: { name: 'berth-dry-run' } };
  await cluster.create(resources.secrets, secret, signal, { dryRun: true }).catch((error: unknown) => {
    if (isFailure(error, 'absent')) throw noNamespace(namespace);
  });
  await readDevices(cluster, settings, signal);
}

/** `create and patch secrets, list events`. */
function textOf(rights: readonly Right[]): string {
  const byResource = Map.groupBy(rights, ({ group, resource }) =>
    group === '' ? resource : `${resource} of ${group}`,
  );
  return [...byResource].map(([name, of]) => `${of.map(({ verb }) => verb).join(' and ')} ${name}`).join(', ');
}
