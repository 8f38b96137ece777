/** Roles of accounts, for clients that show only what a role may do. */
export { hasRole, type Role } from '../domain/roles.ts';
