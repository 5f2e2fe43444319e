import type { Page } from "@playwright/test";

// rows counts what is in the document of a list.
export const rows = (page: Page) => page.evaluate(() => document.querySelectorAll("main li, main tr, main [role=row]").length);

// watchShifts sums up how far things move by themselves on a page, as browsers measure it (CLS).
export async function watchShifts(page: Page) {
  await page.evaluate(() => {
    const w = window as unknown as { shifts: { value: number; what: string }[] };
    w.shifts = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as unknown as { value: number; hadRecentInput: boolean; sources?: { node?: Element }[] }[]) {
        if (entry.hadRecentInput) continue;
        w.shifts.push({ value: entry.value, what: (entry.sources ?? []).map((s) => s.node?.className || s.node?.nodeName || "?").join(", ") });
      }
    }).observe({ type: "layout-shift" });
  });
}

export async function shifts(page: Page): Promise<{ sum: number; what: string }> {
  const all = await page.evaluate(() => (window as unknown as { shifts: { value: number; what: string }[] }).shifts);
  return { sum: all.reduce((n, s) => n + s.value, 0), what: all.map((s) => `${s.value.toFixed(4)} ${s.what}`).join("\n") };
}

// measureFrames returns how long the page took from picture to picture, for some time.
export async function measureFrames(page: Page, ms: number): Promise<{ p50: number; p95: number; most: number; n: number }> {
  const gaps = await frameGaps(page, ms);
  return { p50: quantile(gaps, 0.5), p95: quantile(gaps, 0.95), most: quantile(gaps, 1), n: gaps.length };
}

async function frameGaps(page: Page, ms: number): Promise<number[]> {
  return await page.evaluate(
    (time) =>
      new Promise<number[]>((resolve) => {
        const gaps: number[] = [];
        const began = performance.now();
        let last = began;
        const step = (now: number) => {
          gaps.push(now - last);
          last = now;
          if (now - began < time) requestAnimationFrame(step);
          else resolve(gaps);
        };
        requestAnimationFrame(step);
      }),
    ms,
  );
}

export type Work = { frames: number; gaps: number[]; busy: number; script: number; layouts: number };

// measureWork returns what the main thread of a page did during some time: pictures and the time between
// them in ms, processor time in ms, and layouts. Processor time is that of the thread alone, so it does
// not grow when other programs take the processor away.
export async function measureWork(page: Page, ms: number): Promise<Work> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const read = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    const of = (name: string) => metrics.find((m) => m.name === name)!.value;
    return { busy: 1000 * of("TaskDuration"), script: 1000 * of("ScriptDuration"), layouts: of("LayoutCount") };
  };
  const before = await read();
  const gaps = await frameGaps(page, ms);
  const after = await read();
  await devtools.detach();
  return { frames: gaps.length, gaps, busy: after.busy - before.busy, script: after.script - before.script, layouts: after.layouts - before.layouts };
}

export const added = (a: Work, b: Work): Work => ({ frames: a.frames + b.frames, gaps: [...a.gaps, ...b.gaps], busy: a.busy + b.busy, script: a.script + b.script, layouts: a.layouts + b.layouts });

export const quantile = (gaps: number[], q: number) => Math.round(gaps.toSorted((a, b) => a - b)[Math.min(gaps.length - 1, Math.floor(gaps.length * q))]!);

// plainTexts makes a page without any program of ours that writes to texts of six lines in each
// picture: what no page with such texts can do without.
export async function plainTexts(page: Page, texts: number) {
  await page.goto("about:blank");
  await page.evaluate((count) => {
    document.body.style.cssText = "font: 14px sans-serif; overflow: auto; height: 100vh";
    const all = Array.from({ length: count }, (_, i) => {
      const card = document.body.appendChild(document.createElement("article"));
      card.style.cssText = "border: 1px solid; border-radius: 8px; padding: 12px; margin: 8px auto; width: 800px";
      card.append(`Call ${i}`);
      return card.appendChild(document.createElement("pre"));
    });
    let n = 0;
    const step = () => {
      n += 3;
      all.forEach((el, i) => (el.textContent = Array.from({ length: 6 }, (_, k) => `card${i} ${n + k}`).join("\n")));
      requestAnimationFrame(step);
    };
    step();
  }, texts);
}

// bulk runs many requests, some at a time.
export async function bulk(n: number, at: number, fn: (i: number) => Promise<unknown>) {
  let next = 0;
  await Promise.all(
    Array.from({ length: at }, async () => {
      while (next < n) await fn(next++);
    }),
  );
}
