/**
 * Notice of a spot instance that the cluster takes away: a hook that the node runs before it ends
 * the container, also while Berth is away. Pure.
 *
 * The hook writes the notice and waits, so that SIGTERM comes `STOP_SECONDS` before the end of the
 * grace period. A stop that Berth asks for leaves `HALT_MARK` first, which ends the wait.
 */
import { noticeText } from '../../../domain/compute/notice.ts';

/** From SIGTERM to SIGKILL: the start script ends an instance within five seconds. */
export const STOP_SECONDS = 6;

const NOTICE_FOLDER = '/run/berth';
const REASON = 'the cluster needs the capacity of this spot instance';

export interface NoticeMarks {
  /** Present once Berth has asked for the stop. */
  haltMark: string;
  /** Present once the run of the Pod has ended. */
  endedMark: string;
}

/** Milliseconds of the time are three zeros: `date` of small images has none. */
export function noticeScript(graceSeconds: number, { haltMark, endedMark }: NoticeMarks): string {
  const noticeSeconds = Math.max(0, graceSeconds - STOP_SECONDS);
  const notice = noticeText({ kind: 'SpotReclaimed', atUnixMs: 0, reason: REASON }).trim();
  return `
[ -e ${endedMark} ] || [ -e ${haltMark} ] && exit 0
end=$(($(date +%s) + ${noticeSeconds}))
mkdir -p ${NOTICE_FOLDER}
echo '${notice.replace('"atUnixMs":0', `"atUnixMs":'"$end"'000`)}' >${NOTICE_FOLDER}/.notice
mv -f ${NOTICE_FOLDER}/.notice ${NOTICE_FOLDER}/notice.json
while [ "$(date +%s)" -lt "$end" ] && [ ! -e ${haltMark} ]; do sleep 1; done`;
}
