/** The page of images and the operator's list: what is in one, and its refresh. */
import { expect, test } from 'vitest';
import { leave, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('31230-31239');

test('a refresh downloads an image, and the list then says its digest', async () => {
  const { username, client } = await server.newAccount();
  await client.createImage({ name: 'mine', ref: 'quay.io/team/app:1' });
  const { context, page } = await visit(server, username);
  try {
    await page.goto(`${server.server.apiUrl}/images`);
    const row = page.getByRole('row').filter({ hasText: 'mine' });
    await row.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('mine is being downloaded').waitFor();
    const list = () => client.listImages({ pager: { currentPage: 1, pageSize: 10 } });
    await expect.poll(async () => (await list()).images.at(-1)?.details ?? null).not.toBeNull();
    await page.reload();
    await row.getByText(/sha256:[0-9a-f]{12}/).waitFor();
  } finally {
    await leave(context);
  }
});

test('an administrator refreshes an image of the catalog, and everybody sees its digest', async () => {
  const { admin } = server;
  const { image } = await admin.createCatalogImage({ name: 'offered', ref: 'quay.io/team/offered:1', tags: [] });
  const { context, page } = await visit(server, 'admin');
  try {
    await page.goto(`${server.server.apiUrl}/operator/catalog?tab=images`);
    await page.getByRole('button', { name: 'Refresh offered' }).click();
    await page.getByText('offered is being downloaded').waitFor();
    const { client } = await server.newAccount();
    const digest = async () => {
      const { images } = await client.listImages({ pager: { currentPage: 1, pageSize: 100 } });
      return images.find(({ imageId }) => imageId === image.imageId)?.digest;
    };
    await expect.poll(digest).toMatch(/^sha256:/);
  } finally {
    await leave(context);
  }
});
