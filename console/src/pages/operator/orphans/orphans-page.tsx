export function OrphansPage() {
  return null;
}
