/** What a status of the API means, in a word. */
export const statuses = {
  instance: {
    Running: 'Running',
    Stopped: 'Stopped',
    Starting: 'Starting',
    StartingFailed: 'Start failed',
    Initializing: 'Preparing',
    InitializationFailed: 'Preparing failed',
    Archived: 'Archived',
    Released: 'Terminated',
    PullingImage: 'Pulling image',
    Restarting: 'Restarting',
  },
  waiting: 'Waiting',
  stopping: 'Stopping',
  archiving: 'Archiving',
  cleaning: 'Cleaning up',
};
