export function VolumesPage() {
  return null;
}
