import { Text } from '@mantine/core';
import type { AnswerOf } from '../../../src/contract/routes.ts';
import { useFormat } from '../app/format.ts';
import { useNow } from '../app/now.ts';
import { useTexts } from '../texts/provider.tsx';

const SHORT_DIGEST = 'sha256:'.length + 12;

/** Digest and age of an image, what it declares and what is in it. */
export function ImageFacts({ image }: { image: AnswerOf<'listImages'>['images'][number] }) {
  const { images } = useTexts();
  const { ago } = useFormat();
  const nowMs = useNow(60_000);
  const { digest, builtAtUnixMs, isNewerAvailable, details } = image;
  const built = builtAtUnixMs > 0 ? [images.built(ago(builtAtUnixMs, Math.max(nowMs, builtAtUnixMs)))] : [];
  const declared = details === null ? [] : images.declared(details);
  return (
    <>
      <Text size="xs" c="dimmed" title={digest}>
        {[...(digest === '' ? [] : [digest.slice(0, SHORT_DIGEST)]), ...built, ...declared].join(' · ')}
      </Text>
      {isNewerAvailable && (
        <Text size="xs" c="orange">
          {images.newer}
        </Text>
      )}
    </>
  );
}
