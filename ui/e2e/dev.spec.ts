import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { link, Program } from "./program";
import { accessible, connection, expect, fits, picture, test } from "./rig";

test("perdure dev: every page shows something within ten seconds, and survives a reload of a script", async ({ page }) => {
  test.setTimeout(180_000);
  const dev = new Program("dev", "--addr", "127.0.0.1:0", "--no-open");
  try {
    const [address] = await dev.says(link);
    await page.goto(address);
    const row = (name: RegExp) => page.getByRole("link", { name });
    await expect(row(/Needs you: delete the report/)).toBeVisible({ timeout: 10_000 });
    await expect(row(/Foreground/)).toBeVisible();
    await expect(page.getByTestId("badge")).toContainText(/[1-9]\d* running/, { timeout: 10_000 });
    await expect(page.getByTestId("badge")).toContainText(/1 needs? you/);
    await accessible(page);
    await fits(page);
    await picture(page, "dev-sessions");
    for (const name of await page.getByRole("navigation").getByRole("link").evaluateAll((all) => all.map((one) => one.getAttribute("href")!))) {
      await page.goto(new URL(name, page.url()).href);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await expect(page.getByText(/There is no such/)).toHaveCount(0);
    }

    const [, data] = await dev.says(/^data +(\S+): /m);
    const script = join(data!, "dev", "tour.yaml");
    await page.goto(new URL("sessions", new URL("/ui/", page.url())).href);
    await row(/Foreground/).click();
    await expect(page.getByText(/The sum is 42/)).toBeVisible();
    writeFileSync(script, readFileSync(script, "utf8").replace("I follow a script", "I follow a changed script"));
    await dev.says(/tour\.yaml has changed: the server starts again/);
    await expect(connection(page)).toHaveAttribute("data-state", /reconnecting|offline/);
    await expect(page.getByText(/The sum is 42/)).toBeVisible();
    await expect(connection(page)).toHaveAttribute("data-state", "live");
    await page.getByLabel("Message").fill("hello");
    await page.keyboard.press("Enter");
    await expect(page.getByText(/I follow a changed script/)).toBeVisible();
    await picture(page, "dev-session");

    expect(await dev.interrupt()).toBe(0);
    expect(dev.said).toMatch(/stopped, and removed/);
    expect(existsSync(data!)).toBe(false);
  } finally {
    await dev.end();
  }
});

test("the picture of the README: a session in which a call waits for a person, and work outlives its turn", async ({ page }) => {
  const dev = new Program("dev", "--addr", "127.0.0.1:0", "--no-open", "--sandbox", "none");
  try {
    const [address] = await dev.says(link);
    await page.setViewportSize({ width: 1280, height: 680 });
    await page.goto(address);
    await page.getByRole("link", { name: /Needs you: delete the report/ }).click();
    await expect(page.getByTestId("approval")).toContainText("/report.txt");
    await expect(page.getByRole("region", { name: /running work/ }).getByRole("link", { name: /Backup/ })).toBeVisible();
    await picture(page, "readme");
  } finally {
    await dev.end();
  }
});
