import type { Texts } from '../en/index.ts';

export const statuses: Texts['statuses'] = {
  instance: {
    Running: '运行中',
    Stopped: '已停止',
    Starting: '启动中',
    StartingFailed: '启动失败',
    Initializing: '准备中',
    InitializationFailed: '准备失败',
    Archived: '已归档',
    Released: '已释放',
    PullingImage: '拉取镜像',
    Restarting: '重启中',
  },
  waiting: '等待中',
  stopping: '停止中',
  archiving: '归档中',
  cleaning: '清理中',
};
