import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// The addresses in the built files are relative, so that the UI works below any path prefix.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../internal/ui/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.txt" },
    // Each file has headers of its own, so what every page loads is in few files.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "query", test: /\/@tanstack\/(react-query|query-core)\/(?!.*[qQ]ueries)/ },
            { name: "live", test: /\/src\/((task|approval)\/live|event\/list)\./ },
            { name: "cost", test: /\/src\/cost\/(row|words)\./ },
          ],
        },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
