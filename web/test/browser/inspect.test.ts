// The page that `fathom inspect --html` writes: FATHOM names the program.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Locator, Page } from 'playwright-core';
import { shots, withPage } from './browser';

const program = process.env.FATHOM;

// A model whose layers are of both kinds, with a prediction layer, in more shards than one.
const config = {
  architectures: ['DeepseekV3ForCausalLM'],
  model_type: 'deepseek_v3',
  hidden_size: 256,
  intermediate_size: 384,
  moe_intermediate_size: 128,
  num_hidden_layers: 5,
  num_nextn_predict_layers: 1,
  first_k_dense_replace: 2,
  n_routed_experts: 16,
  n_shared_experts: 1,
  num_experts_per_tok: 4,
  n_group: 4,
  topk_group: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  q_lora_rank: 64,
  kv_lora_rank: 64,
  qk_nope_head_dim: 32,
  qk_rope_head_dim: 16,
  v_head_dim: 32,
  vocab_size: 1024,
  max_position_embeddings: 4096,
  rope_theta: 10000,
  rms_norm_eps: 1e-6,
  routed_scaling_factor: 2.5,
  norm_topk_prob: true,
  scoring_func: 'sigmoid',
  topk_method: 'noaux_tc',
  hidden_act: 'silu',
  tie_word_embeddings: false,
  torch_dtype: 'bfloat16',
  quantization_config: { quant_method: 'fp8', fmt: 'e4m3', activation_scheme: 'dynamic', weight_block_size: [128, 128] },
};

const column = (table: Locator, at: number) =>
  table.locator('tbody tr').evaluateAll((rows, i) => rows.map((row) => row.children[i]?.textContent ?? ''), at);
const numbers = async (table: Locator, at: number) => (await column(table, at)).map((text) => Number(text.replaceAll(',', '')));
const ascending = (values: number[]) => values.every((value, i) => i === 0 || (values[i - 1] ?? 0) <= value);

async function checkTreemap(page: Page): Promise<void> {
  const map = page.getByRole('img', { name: 'Treemap' });
  const boxes = await map.locator('rect').evaluateAll((all) =>
    all.map((rect) => {
      const { x, y, width, height } = (rect as SVGGraphicsElement).getBBox();
      return { x, y, width, height };
    }),
  );
  assert.ok(boxes.length > 20, `${boxes.length} boxes`);
  const [width, height] = (await map.getAttribute('viewBox'))?.split(' ').slice(2).map(Number) ?? [];
  for (const box of boxes) {
    assert.ok(box.width > 0 && box.height > 0);
    assert.ok(box.x >= 0 && box.x + box.width <= (width ?? 0) + 0.2 && box.y >= 0 && box.y + box.height <= (height ?? 0) + 0.2);
  }
  // Names stay inside their boxes.
  const outside = await map.locator('g').evaluateAll((groups) =>
    groups
      .filter((group) => group.querySelector('text'))
      .filter((group) => {
        const [rect, text] = [group.querySelector('rect'), group.querySelector('text')].map((part) => part?.getBoundingClientRect());
        return rect && text && text.right > rect.right + 1;
      })
      .map((group) => group.querySelector('text')?.textContent),
  );
  assert.deepEqual(outside, []);
}

async function checkSorting(page: Page): Promise<void> {
  const families = page.locator('table').filter({ has: page.getByRole('button', { name: 'Family' }) });
  const before = await column(families, 0);
  const tensors = families.getByRole('columnheader').filter({ hasText: 'Tensors' });
  await tensors.getByRole('button').click();
  assert.ok(ascending(await numbers(families, 1)));
  assert.equal(await tensors.getAttribute('aria-sort'), 'ascending');
  await tensors.getByRole('button').click();
  assert.ok(ascending((await numbers(families, 1)).reverse()));
  assert.equal(await tensors.getAttribute('aria-sort'), 'descending');
  await families.getByRole('button', { name: 'Family' }).press('Enter');
  assert.equal(await tensors.getAttribute('aria-sort'), null);
  assert.deepEqual([...(await column(families, 0))].sort(), [...before].sort(), 'no row is lost');
}

test('inspect --html: treemap, shard map and sortable tables', { skip: program ? false : 'FATHOM names no program', timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fathom-inspect-'));
  try {
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    const model = join(folder, 'a <b>model & more');
    const page_file = join(folder, 'report.html');
    const run = (...words: string[]) => spawnSync(program as string, words, { encoding: 'utf8' });
    const made = run('synth', '--config', join(folder, 'config.json'), '--out', model, '--shards', '3', '--quiet');
    assert.equal(made.status, 0, made.stderr);
    const inspected = run('inspect', model, '--html', page_file);
    assert.ok(inspected.status === 0 || inspected.status === 1, inspected.stderr);
    for (const colorScheme of ['light', 'dark'] as const) {
      await withPage(pathToFileURL(page_file).href, { colorScheme }, async (page) => {
        assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'a <b>model & more');
        await page.screenshot({ path: join(shots, `inspect-${colorScheme}.png`), fullPage: true });
        await checkTreemap(page);
        assert.ok((await page.getByRole('img', { name: 'Shard map' }).locator('rect').count()) >= 6);
        await checkSorting(page);
      });
    }
    await withPage(pathToFileURL(page_file).href, { viewport: { width: 400, height: 800 } }, async (page) => {
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing is wider than the window');
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
