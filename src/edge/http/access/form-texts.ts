/**
 * Texts of the pages with a form, which have no console beside them. The API's words stay; below
 * other languages they are the reason.
 */
import type { FastifyRequest } from 'fastify';
import type { RefusalCode } from '../../../domain/kernel/refusal.ts';

const english = {
  language: 'en',
  logIn: 'Log in',
  nameOrEmail: 'Name or email',
  password: 'Password',
  returnTo: (view: string) => `You return to ${view}`,
  continueAs: (name: string) => `Continue as ${name}`,
  orOther: 'Or log in with another account:',
  logInWith: (provider: string) => `Log in with ${provider}`,
  logInAgain: 'Log in again',
  logInOtherwise: 'Log in with another account',
  /** Sentences before the reason of a refused login by a provider. */
  signOnRefused: {} as Partial<Record<RefusalCode, string>>,
  secondFactor: 'Second factor',
  code: 'Code',
  codeText: 'The password is right. Type the code that your authenticator app shows now, or a recovery code.',
  logInByPasskey: 'Log in with a passkey',
  passkeyFailed: 'The browser used no passkey: it was canceled, or there is none for this address.',
  wrongCode: 'The code is wrong, or was used before: a code is good once. Wait for the next one.',
  opening: 'Opening',
  goOn: 'Continue',
  notPossible: 'Not possible',
  tooManyCookies: 'Too many cookies',
  tooManyCookiesText: (host: string) =>
    `The cookies of ${host} are larger than this server reads, mostly by other programs on the same host. Clear them, or use another browser profile or host name.`,
  clearCookies: 'Clear the cookies of this host',
  cookiesCleared: 'Cookies cleared',
  wrongName: 'Unknown host name',
  wrongNameText: (host: string) =>
    `This server does not answer to the name ${host}. Use its address or another of its names, or let its operator set:`,
  toConsole: 'Go to the console',
  thisHost: 'this host',
  register: 'Make an account',
  registerAct: 'Make the account',
  name: 'Name',
  newPassword: 'New password',
  repeated: 'The same again',
  made: 'Account made',
  madeText: (name: string) => `The account ${name} is made. Log in with this name.`,
  namedOtherwise: (name: string) =>
    `Your account here is named ${name}, because another account has the name that your login provider gives you.`,
  closed: 'Registration is off on this installation: ask an administrator for an account.',
  setPassword: 'Set a password',
  setPasswordAct: 'Set the password',
  setPasswordText: (name: string) => `For the account ${name}. This ends all its logins.`,
  passwordSet: 'Password set',
  passwordSetText: (name: string) => `The password is set. Log in with the name ${name}.`,
};

export type FormTexts = typeof english;

const chinese: FormTexts = {
  language: 'zh-CN',
  logIn: '登录',
  nameOrEmail: '用户名或邮箱',
  password: '密码',
  returnTo: (view) => `登录后返回 ${view}`,
  continueAs: (name) => `以 ${name} 的身份继续`,
  orOther: '或使用其他账号登录：',
  logInWith: (provider) => `通过 ${provider} 登录`,
  logInAgain: '重新登录',
  logInOtherwise: '使用其他账号登录',
  signOnRefused: {
    forbidden: '登录服务已确认您的身份，但此处不允许该账号登录。请改用其他账号，或联系管理员。原因：',
    name_taken: '您的邮箱属于此处的另一个账号，登录服务不能打开它。请用密码登录，或联系管理员。原因：',
    not_logged_in: '登录未完成，请重新登录，或改用其他账号。原因：',
    unavailable: '登录服务现在无法使用。请稍后再试，用密码登录，或联系运维人员。原因：',
  },
  secondFactor: '双重验证',
  code: '验证码',
  codeText: '密码正确。请输入身份验证器应用当前显示的验证码，或一个恢复码。',
  logInByPasskey: '使用通行密钥登录',
  passkeyFailed: '浏览器未使用通行密钥：已取消，或此地址没有通行密钥。',
  wrongCode: '验证码错误或已被使用：每个验证码只能使用一次，请等待下一个。',
  opening: '正在打开',
  goOn: '继续',
  notPossible: '无法完成',
  tooManyCookies: 'Cookie 过多',
  tooManyCookiesText: (host) =>
    `${host} 的 Cookie 超过了服务器可读取的大小，多半来自同一主机上的其他程序。请清除它们，或换用其他浏览器配置或主机名。`,
  clearCookies: '清除此主机的 Cookie',
  cookiesCleared: 'Cookie 已清除',
  wrongName: '未知的主机名',
  wrongNameText: (host) => `此服务器不使用主机名 ${host}。请使用它的 IP 地址或其他主机名，或请运维人员设置：`,
  toConsole: '前往控制台',
  thisHost: '此主机',
  register: '注册账号',
  registerAct: '注册',
  name: '用户名',
  newPassword: '新密码',
  repeated: '再次输入新密码',
  made: '账号已创建',
  madeText: (name) => `账号 ${name} 已创建，请用该用户名登录。`,
  namedOtherwise: (name) => `您在此处的账号名为 ${name}，因为登录服务提供的用户名已被其他账号使用。`,
  closed: '此系统未开放注册，请联系管理员开通账号。',
  setPassword: '设置密码',
  setPasswordAct: '设置密码',
  setPasswordText: (name) => `账号：${name}。设置后，该账号的所有登录都会失效。`,
  passwordSet: '密码已设置',
  passwordSetText: (name) => `密码已设置，请用用户名 ${name} 登录。`,
};

/** Language that the browser prefers; English unless that is Chinese. */
export function formTextsFor({ headers }: Pick<FastifyRequest, 'headers'>): FormTexts {
  const preferred = (headers['accept-language'] ?? '')
    .split(',')
    .map((part) => part.trim().split(/\s*;\s*q=/))
    .map(([tag = '', quality = '1']) => ({ tag: tag.toLowerCase(), quality: Number(quality) }))
    .filter(({ tag, quality }) => /^(?:en|zh)\b/.test(tag) && quality > 0)
    .toSorted((one, other) => other.quality - one.quality)[0];
  return preferred?.tag.startsWith('zh') ? chinese : english;
}
