export const readVolumesSearch = (_: Record<string, unknown>) => ({});
export const readVolumeSearch = (_: Record<string, unknown>) => ({});
