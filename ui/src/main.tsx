import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./app/app.css";
import { queries } from "./app/api";
import { newRouter } from "./app/router";
import { takeLink } from "./principal/principal";

const linkError = await takeLink();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={newRouter(linkError)} />
    </QueryClientProvider>
  </StrictMode>,
);
