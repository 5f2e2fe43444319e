package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/tool"
)

// demoOrder is the input of the demo's tools.
type demoOrder struct {
	Order string `json:"order" jsonschema:"which order"`
}

// demoTools returns the two tools of the demo's agent besides bash: one that is safe to repeat, and
// one that must not be repeated. Both write to the external ledger.
func demoTools(dir string) []tool.Tool {
	ledger := filepath.Join(dir, "ledger.jsonl")
	label := tool.Spec{Name: "label", DisplayName: "Label",
		Description: "Writes the label of an order. Safe to repeat.", Class: perdure.Idempotent}
	charge := tool.Spec{Name: "charge", DisplayName: "Charge",
		Description: "Charges for an order. Never call it twice.", Class: perdure.AtMostOnce}
	return []tool.Tool{
		tool.New(label, func(ctx context.Context, in demoOrder, env tool.Env) (map[string]string, error) {
			if !pause(ctx, 60*time.Millisecond) {
				return nil, context.Cause(ctx)
			}
			path := filepath.Join("labels", strings.ReplaceAll(in.Order, " ", "-")+".txt")
			if err := os.WriteFile(filepath.Join(dir, "work", path), []byte(in.Order+"\n"), 0o600); err != nil {
				return nil, fmt.Errorf("write label: %w", err)
			}
			line := chaos.Line{Effect: "label " + in.Order, Class: string(perdure.Idempotent), Key: env.Call.Key,
				PID: os.Getpid()}
			return map[string]string{"label": path}, appendLine(ledger, line)
		}),
		tool.New(charge, func(ctx context.Context, in demoOrder, env tool.Env) (map[string]string, error) {
			if !pause(ctx, 60*time.Millisecond) {
				return nil, context.Cause(ctx)
			}
			line := chaos.Line{Effect: "charge " + in.Order, Class: string(perdure.AtMostOnce), Key: env.Call.Key,
				PID: os.Getpid()}
			if err := appendLine(ledger, line); err != nil {
				return nil, err
			}
			pause(ctx, 60*time.Millisecond) // simulates the latency of a payment service
			return map[string]string{"charged": in.Order}, nil
		}),
	}
}

// appendLine appends one line to the ledger in one write, and syncs it.
func appendLine(path string, line chaos.Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode ledger line: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return file.Sync()
}

// pause waits for d, and reports whether ctx is still active.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
