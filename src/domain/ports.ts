/** Ports of every instance (images/start.sh). */
export const SSH_PORT = 22;
export const NOTEBOOK_PORT = 8888;
