interface Declared {
  entrypoint: readonly string[];
  command: readonly string[];
  user: string;
  workingDir: string;
  ports: readonly number[];
  volumes: readonly string[];
  healthCheck: readonly string[];
  shell: boolean | null;
  sshd: boolean | null;
  jupyter: boolean | null;
}

export const images = {
  title: 'Images',
  list: 'images',
  tabs: { images: 'Images', registries: 'Registries' },
  add: 'Add from a registry',
  columns: { name: 'Name', state: 'State', origin: 'From', size: 'Size', act: '' },
  origins: { operator: 'the operator', saved: 'saved from an instance' },
  states: {
    Ready: 'Ready',
    Absent: 'Pulled at a launch',
    Preparing: 'Being prepared',
    Saving: 'Being saved',
    Failed: 'Failed',
  },
  absentWhy: 'No instance used it here yet. The first launch pulls it, which costs nothing.',
  progress: (name: string) => `Preparation of ${name}`,
  launch: 'Launch',
  hint: 'An instance begins with the root disk of its image. To make one of your own, save a running or stopped instance from its page, or add a reference of a registry.',
  empty: {
    title: 'No image',
    text: 'The installation offers none yet. Add one of a registry, or ask an administrator for one.',
  },
  form: {
    name: 'Name',
    ref: 'Reference',
    refHint:
      'Such as docker.io/library/python:3.13. The registry is asked for it; a private one needs its credentials first.',
  },
  built: (ago: string) => `built ${ago}`,
  newer: 'The registry has a newer one, which the next launch gets.',
  refresh: 'Refresh',
  refreshing: (name: string) => `${name} is being downloaded; instances keep what they have`,
  declared: ({ shell, sshd, jupyter, ...of }: Declared): string[] => [
    ...[[...of.entrypoint, ...of.command].join(' ')].filter(Boolean).map((words) => `runs ${words.slice(0, 80)}`),
    ...(of.user === '' ? [] : [`user ${of.user}`]),
    ...(of.workingDir === '' ? [] : [`folder ${of.workingDir}`]),
    ...(of.ports.length > 0 ? [`ports ${of.ports.join(', ')}`] : []),
    ...(of.volumes.length > 0 ? [`volumes ${of.volumes.join(', ')}`] : []),
    ...(of.healthCheck.length > 0 ? ['has a health check'] : []),
    ...(shell === false ? ['no shell'] : []),
    ...(sshd === false ? ['no sshd'] : []),
    ...(jupyter === false ? ['no Jupyter'] : []),
  ],
  added: (name: string) => `${name} can be launched`,
  deleteTitle: (name: string) => `Delete the image ${name}?`,
  deleteSaved: 'What was saved is deleted, and cannot be restored.',
  deleteRef: 'The reference is forgotten here. The registry keeps its image.',
  deleteKeeps: 'Instances that were launched from it go on, and can be started again.',
  deleted: (name: string) => `${name} is being deleted`,
  registries: {
    title: 'Registry credentials',
    hint: 'For private images: Berth logs in to the registry as you, for your images alone. No answer repeats the password.',
    list: 'registry credentials',
    add: 'Add credentials',
    columns: { server: 'Registry', username: 'User', created: 'Added', act: '' },
    empty: {
      title: 'No credentials yet',
      text: 'Images of public registries need none. For a private registry, store a user name and a token that may read; then add the image.',
    },
    server: 'Registry',
    serverHint: 'Host, such as ghcr.io',
    username: 'User name',
    secret: 'Password or token',
    secretHint: 'A token that may only read is enough',
    deleteTitle: (server: string) => `Delete the credentials for ${server}?`,
    deleteLoses: 'Private images of this registry can no longer be pulled: launches of them fail.',
    deleteKeeps: 'Instances that exist go on.',
  },
};
