import type { Texts } from '../en/index.ts';

const credentials: Readonly<Record<string, string>> = {
  login: '登录',
  apiKey: 'API 密钥',
  link: '一次性链接',
  host: '主机命令',
  none: '无',
};

export const audit: Texts['audit'] = {
  title: '审计',
  list: '记录',
  account: '账户',
  route: '操作，例如 terminate',
  subject: '资源 ID',
  outcome: '结果：ok 或错误代码',
  from: '从',
  to: '至',
  reads: '也显示只读操作',
  columns: { time: '时间', who: '操作者', what: '操作', which: '对象', outcome: '结果', address: '来源' },
  nobody: '未知',
  ok: '成功',
  times: (code, count) => `${code}，${count} 次`,
  details: (route, position) => `${route} 的详情，记录 ${position}`,
  record: (position) => `记录 ${position}`,
  gone: '此记录不在符合筛选条件的结果中。',
  credential: '凭据',
  credentials: (name) => credentials[name] ?? name,
  userAgent: '程序',
  requestId: '请求',
  hash: '链哈希',
  allOfAccount: '此账户的全部记录',
  openAccount: '打开账户',
  allOfRoute: '此类操作的全部记录',
  allOfSubject: '此资源的全部记录',
  noAccount: { title: '账户不存在', text: '筛选需要完整的账户名称。已删除的账户可按其 ID 查找。' },
  none: { title: '没有记录', text: '每个更改内容或需要权限的请求都会记录：操作者、操作、对象和结果。' },
};
