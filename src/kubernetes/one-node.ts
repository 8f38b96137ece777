/** Label of Pods that mount disks of one node. Its value is the account, whose Pods run together. */
export const ONE_NODE_LABEL = 'berth.one-node';
