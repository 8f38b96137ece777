export function VolumePage() {
  return null;
}
