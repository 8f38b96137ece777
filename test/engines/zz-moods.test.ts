import { it } from 'vitest';
import { makeDockerFixture } from '/work/main/test/engines/docker-fixture.ts';
import { makeRegistry } from '/work/main/test/engines/docker-registry.ts';
it('moods', async () => {
  const f = await makeDockerFixture(); const r = await makeRegistry();
  try {
  for (const mood of ['failing','denying','silent','babbling','forging','cutting'] as const) {
    await r.renew(); r.mood = mood; const t=performance.now();
    const told: unknown[]=[];
    await f.engine.ensureImage(r.imageRef, (p)=>told.push(p), AbortSignal.timeout(100_000)).then(()=>console.log(mood,'OK'),(e)=>console.log(mood, Math.round(performance.now()-t), e.kind, e.retry, e.reason, e.message, '|', String(e.cause), e.cause?.cause && String(e.cause.cause), told.length));
  }
  } finally { await r.stop(); await f.stop(); }
}, 400_000);
