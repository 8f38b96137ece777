export function InstancePage() {
  return null;
}
