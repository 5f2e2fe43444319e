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
  return await page.evaluate(
    (time) =>
      new Promise((resolve) => {
        const gaps: number[] = [];
        const began = performance.now();
        let last = began;
        const step = (now: number) => {
          gaps.push(now - last);
          last = now;
          if (now - began < time) return void requestAnimationFrame(step);
          gaps.sort((a, b) => a - b);
          const at = (q: number) => Math.round(gaps[Math.min(gaps.length - 1, Math.floor(gaps.length * q))]!);
          resolve({ p50: at(0.5), p95: at(0.95), most: at(1), n: gaps.length });
        };
        requestAnimationFrame(step);
      }),
    ms,
  );
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
