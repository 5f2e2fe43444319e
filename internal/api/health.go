package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/access"
)

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// health is the response of the liveness check.
type health struct {
	Body struct {
		Status string `json:"status" enum:"ok"`
	}
}

// readiness is the response of the readiness check.
type readiness struct {
	Status int
	Body   struct {
		Status string  `json:"status" enum:"ok,draining,failed"`
		Checks []Check `json:"checks"`
	}
}

func (a healthHandlers) register() {
	read(a.API, operation{id: "health", path: "/healthz", summary: "Check whether the process is alive", open: true, class: isProbe},
		func(context.Context, *struct{}) (*health, error) {
			out := &health{}
			out.Body.Status = "ok"
			return out, nil
		})
	read(a.API, operation{id: "readiness", path: "/readyz", summary: "Check whether the server is ready to serve requests", open: true, class: isProbe}, a.readiness)
	item := a.huma.OpenAPI().Paths["/readyz"].Get
	item.Responses["503"] = &huma.Response{Description: "The server is draining, or a check failed.", Content: item.Responses["200"].Content}
	read(a.API, operation{
		id: "openapi", path: "/openapi.json", summary: "This document", open: true, class: isProbe,
		forms: map[string]*huma.MediaType{formJSON: {Schema: &huma.Schema{Type: huma.TypeObject}}},
	}, a.openAPI)
	read(a.API, operation{
		id: "metrics", path: "/metrics", policy: reads, summary: "Metrics in the Prometheus text format",
		forms: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}, a.metrics)
}

// metrics passes the request on to the metrics handler. A server without metrics returns an empty
// exposition, so that a scraper sees it as up.
func (a healthHandlers) metrics(ctx context.Context, _ *struct{}) (*streamed, error) {
	if principal, asks := access.PrincipalFrom(ctx); asks && principal.Org != budget.DefaultOrg {
		return nil, fmt.Errorf("%w: metrics cover all orgs; use a token of the org %s", perdure.Denied, budget.DefaultOrg)
	}
	return &streamed{Body: func(c huma.Context) {
		if a.cfg.Metrics == nil {
			c.SetHeader("Content-Type", "text/plain; charset=utf-8")
			// The client may be gone.
			_, _ = c.BodyWriter().Write([]byte("# this process records no metrics\n"))
			return
		}
		r, w := humago.Unwrap(c)
		a.cfg.Metrics.ServeHTTP(w, r)
	}}, nil
}

func (a healthHandlers) readiness(ctx context.Context, _ *struct{}) (*readiness, error) {
	out := &readiness{Status: http.StatusOK}
	out.Body.Status, out.Body.Checks = "ok", []Check{}
	if a.cfg.Ready != nil {
		out.Body.Checks = append(out.Body.Checks, a.cfg.Ready(ctx)...)
	}
	for _, check := range out.Body.Checks {
		if !check.OK {
			out.Status, out.Body.Status = http.StatusServiceUnavailable, "failed"
		}
	}
	if a.isDraining() {
		out.Status, out.Body.Status = http.StatusServiceUnavailable, "draining"
	}
	return out, nil
}

func (a *API) openAPI(context.Context, *struct{}) (*streamed, error) {
	text, err := a.OpenAPI()
	if err != nil {
		return nil, err
	}
	return &streamed{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", formJSON)
		c.SetStatus(http.StatusOK)
		_, _ = c.BodyWriter().Write(text) // the client may be gone; it can ask again
	}}, nil
}

// indent formats a JSON document for people, with a final newline.
func indent(text []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
