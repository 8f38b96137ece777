export const statementId = (accountId: string, { month, timeZone }: { month: string; timeZone: string }): string =>
  `${month}/${timeZone}/${accountId}`;
