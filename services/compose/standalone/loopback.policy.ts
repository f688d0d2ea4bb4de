/** Whether only this machine reaches what listens on the address. */
export const isLoopback = (host: string): boolean =>
  /^(127(\.\d{1,3}){3}|::1|localhost)$/.test(host);
