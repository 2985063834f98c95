// Looks at a running platform as a person would and keeps what is to be seen. See tests/deploy/test_browser.py.
//
//   node browser.cjs ORIGIN FOLDER CANCELLED_RUN_ID
//
// CHROMIUM names the browser; playwright-core is found through NODE_PATH.

const { chromium } = require("playwright-core");
const path = require("path");

const BUSY = "[class*=shimmer], [class*=Shimmer], [class*=skeleton], [class*=Skeleton], [class*=pinner]";

async function main([origin, folder, run]) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--no-proxy-server"],
  });
  try {
    const tab = await browser.newPage({ viewport: { width: 1280, height: 760 } });
    tab.setDefaultTimeout(120000);
    const open = async (page, width = 1280, height = 760) => {
      await tab.setViewportSize({ width, height });
      await tab.goto(origin + page, { waitUntil: "domcontentloaded" });
      // The interface never stops asking the server, so idleness is hoped for, not waited for.
      await tab.waitForLoadState("networkidle", { timeout: 5000 }).catch(() => {});
      await tab.waitForTimeout(1500);
    };
    const keep = async (name) => {
      const settled = (busy) => !document.body.innerText.includes("Loading") && !document.querySelector(busy);
      await tab.waitForFunction(settled, BUSY, { timeout: 60000 }).catch(() => {});
      await tab.waitForTimeout(1500);
      await tab.screenshot({ path: path.join(folder, name) });
    };
    const expect = async (text) => {
      await tab.getByText(text).first().waitFor({ state: "visible" });
      console.log("seen:", text);
    };

    // The graph with its groups open.
    const groups = ["marketing", "platform", "results", "samples", "streams", "tables", "views"];
    await open(`/asset-groups/?expanded=${groups.map((name) => `global@global:${name}`).join(",")}`, 1600, 900);
    await expect("orders_sample");
    await keep("asset-graph.png");

    // A view between what it is made of and what is made of it.
    await open("/assets/sales_by_product?view=lineage&lineageScope=neighbors", 1500, 760);
    await expect("sales_by_product_base");
    await expect("best_sellers");
    await keep("view-lineage.png");

    // What a view is, and its columns.
    await open("/assets/sales_by_product?view=overview", 1280, 1000);
    await expect("In euros.");
    await keep("asset-page.png");

    // What the runs were for, and why they were asked for.
    await open("/runs", 1600, 760);
    await expect("why: lag");
    await expect("for: orders");
    await keep("runs.png");

    // How its base has been doing, drawn.
    await open("/assets/sales_by_product/sales_by_product_base?view=overview");
    await expect("The stored part of the view sales_by_product");
    await tab.getByText("Plots", { exact: true }).first().click();
    await expect("lag_seconds_before");
    await tab.getByText("lag_seconds_before").first().scrollIntoViewIfNeeded();
    await keep("view-plots.png");

    // Its checks.
    await open("/assets/sales_by_product?view=checks");
    await expect("reconciles");
    await tab.getByText("reconciles").first().click();
    await expect("The view says what its query says");
    await keep("view-checks.png");

    // The overview's picture.
    await open("/assets/platform/overview?view=overview");
    await tab.getByText("[Show Markdown]").first().click();
    await tab.locator("img[alt*='arrivals']").first().waitFor({ state: "visible" });
    await keep("platform-overview.png");

    await open(`/runs/${run}`);
    await expect("Canceled");
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
