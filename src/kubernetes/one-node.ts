/** Label of Pods that mount disks of one node; its value is the account. They run together. */
export const ONE_NODE_LABEL = 'berth.one-node';
