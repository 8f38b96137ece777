/** Roles of accounts, the `group` of the wire. */
export const ADMIN_ROLE = 'admin';
export const USER_ROLE = 'user';
