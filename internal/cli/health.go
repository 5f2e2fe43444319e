package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
)

// readinessBytes is the maximum size of the answer to a readiness check.
const readinessBytes = 64 << 10

// readiness is the answer of a server to a readiness check.
type readiness struct {
	Status string           `json:"status"`
	Checks []readinessCheck `json:"checks"`
}

type readinessCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// readReadiness decodes the answer to a readiness check. Unavailable: it is the answer of another
// program.
func readReadiness(text []byte) (readiness, error) {
	var r readiness
	if err := perdure.DecodeKnownJSON(text, &r); err != nil || r.Status == "" {
		return readiness{}, fmt.Errorf("%w: the response to GET /readyz is not that of a perdure server", perdure.Unavailable)
	}
	return r, nil
}

// failed returns the failed checks on one line; empty: all are fine.
func (r readiness) failed() string {
	var all []string
	for _, check := range r.Checks {
		if !check.OK {
			all = append(all, check.Name+": "+check.Detail)
		}
	}
	return strings.Join(all, "; ")
}

// health asks the server once whether it is ready. It sends no token, because none is needed.
func (c *doctorCommand) health(ctx context.Context, a *app) error {
	ctx, stop := context.WithTimeout(ctx, serverTime)
	defer stop()
	r, err := a.readiness(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &userError{code: exitUnreachable, err: err, message: fmt.Sprintf("the server did not answer within %s", serverTime),
			hint: "read its log; its work is stored, and a restart is safe"}
	case err != nil:
		return err
	}
	if err := c.show(ctx, a, outputObject{r.Status, r, func() { fmt.Fprintln(a.out, a.oneLine(r.Status, 100)) }}); err != nil {
		return err
	}
	switch failed := r.failed(); {
	case failed != "":
		return &userError{code: exitError, message: "the server is not ready: " + failed,
			hint: "correct what the check names; " + program + " doctor checks this machine"}
	case r.Status != "ok":
		return &userError{code: exitError, message: "the server is not ready: " + r.Status,
			hint: "if it is stopping, ask the next one; else read its log"}
	}
	return nil
}

// readiness asks the server of the data directory, or of --server.
func (a *app) readiness(ctx context.Context) (readiness, error) {
	way, err := a.connect(ctx)
	if err != nil {
		return readiness{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, way.Base+"/readyz", nil)
	if err != nil {
		return readiness{}, fmt.Errorf("%w server: %w", perdure.Invalid, err)
	}
	resp, err := way.HTTP.Do(req)
	if err != nil {
		return readiness{}, fmt.Errorf("%w: %w", perdure.Unavailable, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, readinessBytes))
	if err != nil {
		return readiness{}, cut(ctx, err)
	}
	return readReadiness(text)
}
