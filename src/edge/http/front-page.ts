export const HTML_TYPE = 'text/html; charset=utf-8';

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

export const frontPage = ({
  version,
  gatewayOrigin,
}: {
  version: string;
  gatewayOrigin: string;
}): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Berth</title>
<h1>Berth ${escaped(version)}</h1>
<p>A cloud of notebook instances. This address serves its API, under <code>/api</code>.</p>
<ul>
<li><a href="/api/openapi.json">The API document</a> (OpenAPI 3.1)</li>
<li><a href="/readyz">Whether the server is ready</a></li>
</ul>
<p>Notebooks and forwarded ports of instances are at <code>${escaped(gatewayOrigin)}</code>.</p>
</html>
`;
