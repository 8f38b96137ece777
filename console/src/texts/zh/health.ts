import type { Texts } from '../en/index.ts';

export const health: Texts['health'] = {
  title: '健康',
  well: (engine, regions, tasks) =>
    `一切正常：服务器就绪（${engine}），${regions} 个区域有响应，${tasks} 个后台任务无错误。`,
  severities: { bad: '故障', warns: '警告', tells: '提示' },
  sentences: {
    notReady: (text) => `服务器未就绪：${text}`,
    degraded: (text) => `服务器就绪，但有问题需要处理：${text}`,
    engineSilent: (region, text) => `${region} 的引擎无响应：${text}。实例保持状态，恢复后继续。`,
    taskFails: (task, error, failures) => `后台任务“${task}”失败（${failures} 次）：${error}`,
    taskLate: (task, time) => `后台任务“${task}”自 ${time} 起未运行。`,
    poolFull: (pool, region, share) => `${region} 的存储池 ${pool} 已分配 ${share}：新磁盘将被拒绝。`,
    fileSystemFull: (pool, region, free) => `${region} 的存储池 ${pool} 文件系统仅剩 ${free}：写入将失败。`,
    diskHeld: (disk, time, processes) =>
      `自 ${time} 起，主机进程阻止删除 ${disk}${processes === '' ? '' : `：${processes}`}。`,
    webhookOff: (url, error) => `Webhook ${url} 长时间失败后已关闭：${error}`,
    webhookFails: (url, error, attempts) => `Webhook ${url} 失败（${attempts} 次）：${error}`,
    drained: (region, reason, stopsAt) =>
      `${region} 正在排空：${reason}。${stopsAt === null ? '' : `运行中的实例将于 ${stopsAt} 停止。`}`,
    waiting: (region, count) => `${region} 有 ${count} 个启动在等待容量。`,
    orphans: (count, running) =>
      `${count} 个资源没有记录${running > 0 ? `；其中 ${running} 个正在运行且无人付费` : ''}。`,
    priceDue: (count, time) => `${count} 个新价格将于 ${time} 生效。`,
    accountEnds: (name, time) => `账户 ${name} 将于 ${time} 连同全部内容删除。`,
  },
  proxies: {
    title: '前面的代理',
    hint: '此浏览器在每个地址打开 WebSocket、数据流并发送 4 MB 内容，再比较服务器收到的请求。',
    check: '检查前面的代理',
    well: '途中没有改动，也没有拒绝。',
    faults: {
      unreached: '没有响应：域名没有解析，或代理未监听该地址，或没有相应证书。',
      foreign: (status) =>
        status === 403 || status === 404
          ? `代理自己作了响应（${status}）：它没有把此地址转发到 Berth，或拒绝以点开头的路径（如 /.berth/check）；Notebook 也有这样的路径。`
          : `响应来自其他程序（${status}）：代理没有把此地址转发到 Berth，或无法连接 Berth。`,
      listener: (seen) =>
        seen === 'api'
          ? '此地址通向 API，而不是网关：代理必须把它转发到网关的端口。'
          : '此地址通向网关，而不是 API：代理必须把它转发到 API 的端口。',
      othersUnknown: '未检查网关和端口的主机名：它们由 API 给出，而 API 无法访问。',
      host: (seen) => `Berth 收到的主机名是“${seen}”：代理必须原样转发请求头 Host。`,
      scheme: (seen) => `Berth 收到的是 ${seen}：代理必须发送请求头 X-Forwarded-Proto。`,
      forwardedFor: '代理没有发送请求头 X-Forwarded-For：所有人共用一个地址的限额。',
      untrusted: '代理的请求头不被采信：请在 BERTH_TRUSTED_PROXIES 中填写其地址。',
      webSocket: '无法打开 WebSocket（终端和 Notebook 需要）：代理必须转发请求头 Upgrade 和 Connection。',
      stream: '数据流延迟到达：代理必须立即转发 text/event-stream，不缓冲、不压缩。',
      body: (status) =>
        status === 413
          ? '4 MB 的内容被拒绝（413）：需要提高代理的请求体上限。'
          : `4 MB 的内容没有送达（${status === 0 ? '连接中断' : status}）。`,
      headers: (status) =>
        `30 KB 的请求头没有送达（${status === 0 ? '连接中断' : status}）：代理必须接受 32 KB，nginx 用 large_client_header_buffers 4 32k。`,
      claim:
        '客户端可以冒充地址：代理必须设置 X-Forwarded-For 或追加客户端地址；若改用 Forwarded，则必须删除客户端发来的 X-Forwarded-For。',
    },
  },
  steps: {
    region: '查看区域',
    disks: '查看磁盘用量',
    webhooks: '查看 Webhook',
    fleet: '查看主机',
    orphans: '查看孤立资源',
    prices: '查看价格',
    account: '查看账户',
    tasks: '查看任务',
  },
  tasks: '后台任务',
  tasksFailed: (failed, all) =>
    failed === 0 ? `全部 ${all} 项上次运行均成功。` : `${all} 项中有 ${failed} 项上次运行失败。`,
  allTasks: '显示全部',
  onlyFailed: '只显示失败的',
  columns: { task: '任务', state: '上次运行', every: '间隔', last: '开始于', took: '耗时', failures: '失败' },
  due: '到期事项',
  dueColumns: { kind: '事项', count: '数量', next: '下一次', failing: '上次尝试' },
  runs: '运行中',
  succeeded: '成功',
  failed: '失败',
  failuresOf: (failures, runs) => `${failures} / ${runs}`,
};
