export const parts = {
  labels: {
    title: (name: string) => `Labels of ${name}`,
    field: 'A line each, as key=value',
    hint: 'Lists are filtered by labels, and bills are summed by them. An empty field removes all.',
  },
};
