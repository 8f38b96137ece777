export function FleetPage() {
  return null;
}
