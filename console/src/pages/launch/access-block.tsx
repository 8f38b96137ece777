/** Ports, Docker, scripts and variables: closed until somebody needs them. */
import { Accordion, Stack, Switch, TagsInput, Text, Textarea, Title } from '@mantine/core';
import { useState } from 'react';
import { useTexts } from '../../texts/provider.tsx';
import type { BlockProps } from './block.ts';
import type { Scripts } from './draft.ts';

const SCRIPT_ROWS = 8;

interface AccessBlockProps extends BlockProps {
  scripts: Scripts;
  onScripts: (scripts: Scripts) => void;
}

const isPort = (text: string): boolean => /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;

/** Lines `NAME=value`. */
const variablesOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .map((line) => line.split(/=(.*)/s))
      .filter(([name = '', value]) => name.trim() !== '' && value !== undefined)
      .map(([name = '', value = '']) => [name.trim(), value]),
  );

const linesOf = (variables: Record<string, string>): string =>
  Object.entries(variables)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n');

export function AccessBlock({ draft, change, scripts, onScripts }: AccessBlockProps) {
  const { launch } = useTexts();
  const { ports, docker, image, imageCommand } = draft;
  // What is being typed is no variable yet; a template brings others.
  const [lines, setLines] = useState('');
  const isWritten = linesOf(variablesOf(lines)) === linesOf(scripts.environment);
  const opened = [
    ...(ports.length > 0 ? ['ports'] : []),
    ...(docker ? ['docker'] : []),
    ...(scripts.initScript !== '' || scripts.startCommand !== '' ? ['scripts'] : []),
    ...(Object.keys(scripts.environment).length > 0 ? ['environment'] : []),
  ];
  return (
    <Stack gap="xs">
      <Title order={2}>{launch.access}</Title>
      <Accordion multiple variant="separated" defaultValue={opened}>
        <Accordion.Item value="ports">
          <Accordion.Control>{launch.ports}</Accordion.Control>
          <Accordion.Panel>
            <TagsInput
              label={launch.ports}
              description={launch.portsHint}
              value={ports.map(String)}
              data={image.details?.ports.map(String) ?? []}
              onChange={(texts) => change({ ports: texts.filter(isPort).map(Number) })}
              splitChars={[',', ' ']}
              maxTags={32}
            />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="docker">
          <Accordion.Control>{launch.docker}</Accordion.Control>
          <Accordion.Panel>
            <Switch
              label={launch.dockerSwitch}
              description={launch.dockerHint}
              checked={docker}
              onChange={({ currentTarget }) => change({ docker: currentTarget.checked })}
            />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="scripts">
          <Accordion.Control>{launch.scripts}</Accordion.Control>
          <Accordion.Panel>
            <Text size="xs" c="dimmed" mb="xs">
              {imageCommand ? launch.noScripts : launch.scriptsHint}
            </Text>
            <ScriptField
              label={launch.initScript}
              disabled={imageCommand}
              value={scripts.initScript}
              onChange={(initScript) => onScripts({ ...scripts, initScript })}
            />
            <ScriptField
              label={launch.startCommand}
              disabled={imageCommand}
              value={scripts.startCommand}
              onChange={(startCommand) => onScripts({ ...scripts, startCommand })}
            />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="environment">
          <Accordion.Control>{launch.environment}</Accordion.Control>
          <Accordion.Panel>
            <Textarea
              label={launch.environment}
              description={launch.environmentHint}
              autosize
              minRows={3}
              spellCheck={false}
              styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
              value={isWritten ? lines : linesOf(scripts.environment)}
              onChange={({ currentTarget: { value } }) => {
                setLines(value);
                onScripts({ ...scripts, environment: variablesOf(value) });
              }}
            />
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Stack>
  );
}

interface ScriptFieldProps {
  label: string;
  disabled: boolean;
  value: string;
  onChange: (text: string) => void;
}

function ScriptField({ onChange, ...field }: ScriptFieldProps) {
  return (
    <Textarea
      {...field}
      mb="xs"
      autosize
      minRows={SCRIPT_ROWS / 2}
      maxRows={SCRIPT_ROWS * 2}
      spellCheck={false}
      placeholder="#!/bin/bash"
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
