/**
 * Main process of a helper container that serves commands. Arguments: folder of the state, seconds.
 * Ends that long after the last command; a running command has no parent in the container's process
 * namespace, like this process.
 */
export const SERVE_COMMANDS = String.raw`
trap 'exit 0' TERM
cd "$1" || exit
touch used
while :; do
  sleep 5 & wait $!
  [ "$(cat /proc/[0-9]*/status 2>/dev/null | grep -c '^PPid:[[:space:]]*0$')" -gt 1 ] && touch used
  [ $(($(date +%s) - $(stat -c %Y used))) -lt "$2" ] || exit 0
done
`;
