/** What somebody chooses for a launch, its defaults, and the request that it makes. Pure. */
import type { InputOf, AnswerOf } from '../../../../src/contract/routes.ts';
import type { ChargeMode } from '../../../../src/contract/statuses.ts';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';

export type Family = AnswerOf<'catalog'>['instanceInfos'][number];
export type Image = AnswerOf<'listImages'>['images'][number];
export type LaunchBody = InputOf<'launch'>;
export type Template = AnswerOf<'listTemplates'>['templates'][number];

/** An instance type as one region offers it, at the full price or as spot. */
export interface Offer {
  key: string;
  regionId: string;
  regionName: string;
  typeId: string;
  typeName: string;
  gpuName: string;
  gpus: number;
  /** Of each; undefined: not known. */
  gpuMemoryGB: number | undefined;
  gpuSlice: 'mig' | 'shared' | undefined;
  /** Model of the cards whose parts the GPUs are. */
  gpuCard: string | undefined;
  cpuCores: number;
  memoryGB: number;
  rootDiskGB: number;
  dataDiskGB: number;
  isSpot: boolean;
  isInStock: boolean;
  fitsNow: number;
  prices: Family['regionInfos'][number]['instanceTypeInfos'][number]['price'];
}

const offerKey = (regionId: string, typeId: string, isSpot: boolean): string =>
  `${typeId}.${regionId}${isSpot ? '.spot' : ''}`;

export const offersOf = (families: readonly Family[]): Offer[] =>
  families.flatMap(({ gpuName, isSpotInstance: isSpot, regionInfos }) =>
    regionInfos.flatMap(({ regionId, regionName, instanceTypeInfos }) =>
      instanceTypeInfos.map((type) => ({
        key: offerKey(regionId, type.instanceTypeId, isSpot),
        regionId,
        regionName,
        typeId: type.instanceTypeId,
        typeName: type.instanceTypeName,
        gpuName,
        gpus: type.gpuNum,
        gpuMemoryGB: type.gpuMemoryGB,
        gpuSlice: type.gpuSlice,
        gpuCard: type.gpuCard,
        cpuCores: type.cpuCores,
        memoryGB: type.memoryGB,
        rootDiskGB: type.rootDiskGB,
        dataDiskGB: type.dataDiskGB,
        isSpot,
        isInStock: type.stockStatus === 'InStock',
        fitsNow: type.fitsNow,
        prices: type.price,
      })),
    ),
  );

export interface Mount {
  id: string;
  path: string;
}

/** All but scripts and variables, which a template has, is in the address of the page. */
export interface Choices {
  name?: string;
  offer?: string;
  /** Empty: one that is not offered any more. */
  imageId?: string;
  mode?: ChargeMode;
  duration?: number;
  autoRenew?: boolean;
  resume?: boolean;
  mounts?: Mount[];
  ports?: number[];
  docker?: boolean;
  /** The image's own command in place of the start script. */
  imageCommand?: boolean;
  /** The data sets of the operator. */
  commonData?: boolean;
  /** GB of the data disk; left out: that of the type. */
  dataDiskGB?: number;
}

export interface Scripts {
  initScript: string;
  startCommand: string;
  environment: Record<string, string>;
}

export const noScripts: Scripts = { initScript: '', startCommand: '', environment: {} };

export const priceOf = ({ prices }: Offer, mode: ChargeMode): number | undefined =>
  prices.find(({ chargeMode }) => chargeMode === mode)?.price;

const hourly = (offer: Offer): number => priceOf(offer, 'perHour') ?? Infinity;

/** The smallest that fits: in stock, without GPU, at the lowest price. */
export const smallestOf = (offers: readonly Offer[]): Offer | undefined =>
  [...offers].sort(
    (one, other) =>
      Number(other.isInStock) - Number(one.isInStock) ||
      Number(one.isSpot) - Number(other.isSpot) ||
      one.gpus - other.gpus ||
      hourly(one) - hourly(other) ||
      one.cpuCores - other.cpuCores,
  )[0];

/** The nearest alternative in stock to an offer that is not. */
export const nearestTo = (offer: Offer, offers: readonly Offer[]): Offer | undefined =>
  offers
    .filter(({ isInStock, isSpot, key }) => isInStock && isSpot === offer.isSpot && key !== offer.key)
    .sort(
      (one, other) =>
        Math.abs(one.gpus - offer.gpus) - Math.abs(other.gpus - offer.gpus) ||
        Number(other.gpuName === offer.gpuName) - Number(one.gpuName === offer.gpuName) ||
        Math.abs(one.cpuCores - offer.cpuCores) - Math.abs(other.cpuCores - offer.cpuCores),
    )[0];

const MAX_NAME = 128;

/** `lab`, `lab-2`, `lab-3` … */
export function nextName(name: string): string {
  const [, base = name, number] = /^(.*?)-(\d{1,6})$/s.exec(name) ?? [];
  const ending = `-${number === undefined ? 2 : Number(number) + 1}`;
  return `${base.slice(0, MAX_NAME - ending.length)}${ending}`;
}

export interface Known {
  offers: readonly Offer[];
  images: readonly Image[];
  volumes: readonly { id: string; volumeName: string; volumeType: string; region: string }[];
}

/** The choices of an earlier launch. */
export function choicesLike(instance: InstanceObject, { offers, images }: Known): Choices {
  const { instanceSpecInfo: spec } = instance;
  const { instanceBillingInfo: billing, instanceConfiguration: configuration, imageInfo } = spec;
  const { dataDiskAmountGiReq: dataDiskGB } = configuration.InstanceDiskAmountRequest;
  const key = offerKey(spec.regionInfo.regionId, spec.instanceTypeInfo.instanceId, spec.isSpotInstance);
  const image = images.find(({ name, isPublic }) => name === imageInfo.name && isPublic === imageInfo.isPublic);
  return {
    name: nextName(spec.name),
    offer: key,
    imageId: image?.imageId ?? '',
    mode: billing.chargeMode,
    duration: billing.duration,
    mounts: spec.remoteStorages.map(({ remoteStorageId, mountPath }) => ({ id: remoteStorageId, path: mountPath })),
    ports: spec.nodePorts.map(({ port }) => port).filter((port) => port !== 22),
    docker: configuration.enableDocker,
    commonData: configuration.enableCommonData,
    ...(offers.find((offer) => offer.key === key)?.dataDiskGB === dataDiskGB ? {} : { dataDiskGB }),
  };
}

export interface Draft extends Required<Omit<Choices, 'dataDiskGB' | 'offer' | 'imageId'>> {
  offer: Offer;
  /** The offer chosen is gone: this one is another. */
  isOtherOffer: boolean;
  image: Image;
  isOtherImage: boolean;
  /** The offer has no price in the mode chosen. */
  isOtherMode: boolean;
  dataDiskGB: number | null;
}

const FIRST_NAME = 'notebook';

/** Choices over those of the last launch, over the defaults. Null: nothing is offered. */
export function draftOf(choices: Choices, last: Choices, { offers, images, volumes }: Known): Draft | null {
  const wanted = choices.offer ?? last.offer;
  const chosen = offers.find(({ key }) => key === wanted);
  // Somebody's own choice stays, with why it can't be had; a remembered one gives way.
  const offer = chosen && (choices.offer !== undefined || chosen.isInStock) ? chosen : smallestOf(offers);
  const chosenImage = images.find(({ imageId }) => imageId === choices.imageId);
  const image =
    chosenImage ??
    images.find(({ imageId, state }) => imageId === last.imageId && state !== 'Failed') ??
    images.find(({ state }) => state === 'Ready') ??
    images[0];
  if (offer === undefined || image === undefined) return null;
  const { mode: wantedMode = 'perHour' } = { ...last, ...choices };
  const mode = priceOf(offer, wantedMode) === undefined ? 'perHour' : wantedMode;
  return {
    name: choices.name ?? last.name ?? FIRST_NAME,
    offer,
    isOtherOffer: choices.offer !== undefined && chosen === undefined,
    image,
    isOtherImage: choices.imageId !== undefined && chosenImage === undefined,
    mode,
    isOtherMode: choices.mode !== undefined && mode !== choices.mode,
    duration: isByHour(mode) ? 1 : (choices.duration ?? last.duration ?? 1),
    autoRenew: choices.autoRenew ?? false,
    resume: choices.resume ?? mode === 'tidePerHour',
    mounts: choices.mounts ?? (last.mounts ?? []).filter(({ id }) => volumes.some((volume) => volume.id === id)),
    ports: choices.ports ?? last.ports ?? [],
    docker: choices.docker ?? last.docker ?? false,
    commonData: choices.commonData ?? last.commonData ?? false,
    imageCommand: choices.imageCommand ?? false,
    dataDiskGB: choices.dataDiskGB ?? null,
  };
}

export const isByHour = (mode: ChargeMode): boolean => mode === 'perHour' || mode === 'tidePerHour';

export function bodyOf(draft: Draft, scripts: Scripts, { volumes }: Known): LaunchBody {
  const { offer, mode } = draft;
  // The server refuses a volume that is gone, and its quote.
  const mounts = draft.mounts.map(({ id, path }) => {
    const { volumeName = id, volumeType = 'filesystem' } = volumes.find((one) => one.id === id) ?? {};
    return { mountPath: path, remoteStorageName: volumeName, remoteStorageId: id, type: volumeType };
  });
  const { initScript, startCommand } = draft.imageCommand ? noScripts : scripts;
  const mayResume = mode === 'tidePerHour' || offer.isSpot;
  return {
    name: draft.name.trim(),
    imageId: draft.image.imageId,
    instanceTypeId: offer.typeId,
    region: offer.regionId,
    billing: {
      chargeMode: mode,
      duration: draft.duration,
      ...(isByHour(mode) ? {} : { autoRenew: draft.autoRenew }),
      ...(mayResume ? { resume: draft.resume } : {}),
    },
    remoteStorages: mounts,
    instanceConfiguration: {
      enableCommonData: draft.commonData,
      enableDocker: draft.docker,
      initScript,
      ...(draft.dataDiskGB === null ? {} : { dataDiskGB: draft.dataDiskGB }),
    },
    isSpotInstance: offer.isSpot,
    nodePorts: draft.ports,
    ...(startCommand === '' ? {} : { startCommand }),
    ...(draft.imageCommand ? { runImageCommand: true } : {}),
    ...(Object.keys(scripts.environment).length === 0 ? {} : { environment: scripts.environment }),
  };
}

/** A mount path that no other volume has. */
export function freePath(name: string, mounts: readonly Mount[]): string {
  const base = `/root/${name.replaceAll(/[^\w.-]+/g, '-')}`;
  const taken = new Set(mounts.map(({ path }) => path));
  return (
    Array.from({ length: mounts.length + 1 }, (_, at) => (at === 0 ? base : `${base}-${at + 1}`)).find(
      (path) => !taken.has(path),
    ) ?? base
  );
}

/** The choices behind a request, such as that of a template. */
export function choicesOfBody(body: LaunchBody): { choices: Choices; scripts: Scripts } {
  const { billing, instanceConfiguration: configuration } = body;
  return {
    choices: {
      name: body.name,
      offer: offerKey(body.region, body.instanceTypeId, body.isSpotInstance ?? false),
      imageId: body.imageId,
      mode: billing.chargeMode,
      duration: billing.duration,
      ...(billing.autoRenew === undefined ? {} : { autoRenew: billing.autoRenew }),
      ...(billing.resume === undefined ? {} : { resume: billing.resume }),
      mounts: body.remoteStorages.map(({ remoteStorageId: id, mountPath: path }) => ({ id, path })),
      ports: body.nodePorts,
      docker: configuration.enableDocker,
      commonData: configuration.enableCommonData,
      imageCommand: body.runImageCommand ?? false,
      ...(configuration.dataDiskGB === undefined ? {} : { dataDiskGB: configuration.dataDiskGB }),
    },
    scripts: {
      initScript: configuration.initScript,
      startCommand: body.startCommand ?? '',
      environment: body.environment ?? {},
    },
  };
}
