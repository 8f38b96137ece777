import type { Texts } from '../en/index.ts';

export const parts: Texts['parts'] = {
  labels: {
    title: (name) => `${name} 的标签`,
    field: '每行一个，格式为 key=value',
    hint: '列表可按标签筛选，账单可按标签汇总。清空则移除全部标签。',
  },
};
