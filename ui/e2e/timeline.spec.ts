import { accessible, connection, enter, expect, picture, test } from "./rig";

test("timeline: bars cross the end of their turn, grow, and the table has the same rows", async ({ page, server }) => {
  const id = await server.session("Work");
  await server.say(id, "background");
  await enter(page, server, `sessions/${id}/timeline`);
  const task = page.getByRole("link", { name: /^Count\s+task, .*outlives its turn/ });
  await expect(task).toBeVisible();
  await expect(page.getByRole("link", { name: /^Model, step 1\s+model call, ran / })).toBeVisible();
  await expect(page.locator(".marks .turn-end").first()).toBeAttached();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  const bars = () => page.locator("li [data-bar]").evaluateAll((all) => all.map((el) => (el as HTMLElement).dataset.bar));
  const rows = () => page.locator("tr[data-bar]").evaluateAll((all) => all.map((el) => (el as HTMLElement).dataset.bar));
  expect((await bars()).length).toBeGreaterThan(2);
  expect(await rows()).toEqual(await bars());
  await server.say(id, "charge");
  await expect(page.getByRole("link", { name: /add\s+call, .*needs a person/i })).toBeVisible(); // without a reload
  expect(await rows()).toEqual(await bars());
  await accessible(page);
  await picture(page, "timeline-light");

  await page.getByLabel("Group by").selectOption("tool");
  await expect(page).toHaveURL(/group=tool/);
  await expect(page.getByRole("heading", { name: "bash" })).toBeVisible();
  expect((await rows()).toSorted()).toEqual((await bars()).toSorted());
  await task.click();
  await expect(page).toHaveURL(/events\?seq=\d+/);
});

test("U-2: the range changes by drag, by keys and typed, and is in the address", async ({ page, server }) => {
  const id = await server.session("Range");
  await server.say(id, "hello");
  await server.api("GET", `/v1/sessions/${id}?wait=20s`);
  await server.say(id, "charge");
  await enter(page, server, `sessions/${id}/timeline`);
  await expect(page.getByTestId("bars-table")).toBeVisible();
  const range = () => {
    const q = new URL(page.url()).searchParams;
    return q.has("from") ? Number(q.get("to")) - Number(q.get("from")) : 0;
  };
  await page.getByTestId("chart").focus();
  await page.keyboard.press("+");
  await expect.poll(range).toBeGreaterThan(0);
  const zoomed = range();
  await page.keyboard.press("-");
  await expect.poll(range).toBeGreaterThan(zoomed);
  await page.keyboard.press("0");
  await expect.poll(range).toBe(0);

  const map = (await page.getByTestId("minimap").boundingBox())!;
  await page.mouse.move(map.x + map.width * 0.1, map.y + 20);
  await page.mouse.down();
  await page.mouse.move(map.x + map.width * 0.6, map.y + 20, { steps: 4 });
  await page.mouse.up();
  await expect.poll(range).toBeGreaterThan(0);
  const dragged = page.url();
  await page.reload();
  await expect(page.getByTestId("bars-table")).toBeVisible();
  expect(page.url()).toBe(dragged);

  await page.getByRole("textbox", { name: "From" }).fill("2 h later");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText("is no time");
  await page.getByRole("textbox", { name: "From" }).fill("2h");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await expect.poll(range).toBeGreaterThan(3_600_000);
  await expect(page.getByText(/≀ \d+ h.* ≀/).first()).toBeVisible(); // the idle time before is folded
});

test("timeline: all sessions, an unknown one, and none", async ({ page, server }) => {
  await enter(page, server, "timeline");
  await expect(page.getByText("There is no work to show yet.")).toBeVisible();
  await server.say(await server.session("First of all"), "hello");
  await server.say(await server.session("Second of all"), "hello");
  await page.reload();
  await expect(page.getByRole("heading", { name: "First of all" })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Second of all" })).toBeVisible();
  await page.goto(`${server.url}/ui/sessions/session_00000000000000000000000000000000/timeline`);
  await expect(page.getByRole("heading", { name: "There is no such session" })).toBeVisible();
});
