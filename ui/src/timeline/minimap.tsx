import { useEffect, useRef, useState } from "react";
import { duration } from "../text/text";
import { endOf, startOf, type Bar } from "./fold";
import type { Scale } from "./scale";

const height = 44;

// Minimap shows all bars, and the range that the chart shows. A drag selects a range; the fields and
// keys beside it do the same.
export function Minimap({ bars, scale, range, onRange }: { bars: readonly Bar[]; scale: Scale; range: [number, number]; onRange: (from: number, to: number) => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [drag, setDrag] = useState<[number, number]>();
  useEffect(() => {
    const el = canvas.current!;
    const sized = new ResizeObserver(() => setWidth(el.clientWidth));
    sized.observe(el);
    return () => sized.disconnect();
  }, []);
  useEffect(() => {
    const el = canvas.current;
    const pen = el?.getContext("2d");
    if (!el || !pen || width === 0) return;
    const dense = window.devicePixelRatio || 1;
    el.width = width * dense;
    el.height = height * dense;
    pen.scale(dense, dense);
    const style = getComputedStyle(el);
    const colour = (name: string) => style.getPropertyValue(name);
    const [work, wait, bad] = [colour("--accent"), colour("--warn"), colour("--bad")];
    const lanes = Math.min(bars.length, height / 2);
    bars.forEach((b, i) => {
      const y = Math.floor(((i % lanes) * (height - 3)) / Math.max(1, lanes)) + 1;
      for (const p of b.parts) {
        pen.fillStyle = p.kind === "human" ? wait : b.state === "failed" || b.state === "unknown" ? bad : work;
        pen.globalAlpha = p.kind === "run" ? 0.9 : 0.4;
        const x = scale.place(p.from) * width;
        pen.fillRect(x, y, Math.max(1, scale.place(p.to) * width - x), 2);
      }
    });
  }, [bars, scale, width]);
  const [a, b] = drag ?? [scale.place(range[0]), scale.place(range[1])];
  const at = (e: React.PointerEvent) => {
    const r = e.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (e.clientX - r.left) / r.width));
  };
  return (
    <div
      className="minimap"
      data-testid="minimap"
      role="img"
      aria-label={bars.length > 0 ? `All work, over ${duration(Math.max(...bars.map(endOf).slice(0, 1000), scale.to) - Math.min(startOf(bars[0]!), scale.from))}` : "No work"}
      onPointerDown={(e) => {
        e.currentTarget.setPointerCapture(e.pointerId);
        setDrag([at(e), at(e)]);
      }}
      onPointerMove={(e) => drag && setDrag([drag[0], at(e)])}
      onPointerUp={() => {
        if (drag && Math.abs(drag[1] - drag[0]) > 0.01) onRange(scale.time(Math.min(...drag)), scale.time(Math.max(...drag)));
        setDrag(undefined);
      }}
      onPointerCancel={() => setDrag(undefined)}
    >
      <canvas ref={canvas} height={height} />
      <span className="window" style={{ left: `${Math.min(a, b) * 100}%`, width: `${Math.abs(b - a) * 100}%` }} />
    </div>
  );
}
