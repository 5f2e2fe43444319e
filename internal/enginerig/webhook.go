package enginerig

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/secret"
)

// withWebhooks enables webhooks with a keyring in dir, also for receivers on this machine.
func withWebhooks(cfg *local.Config, dir string) {
	file := filepath.Join(dir, "keyring")
	keys, err := secret.Load(file)
	if errors.Is(err, perdure.NotFound) {
		keys, err = secret.Create(file)
	}
	if err != nil {
		panic(err)
	}
	guard, err := egress.New(egress.Config{Listed: []egress.Listing{{Purpose: egress.ForWebhooks, Host: "127.0.0.1"}}})
	if err != nil {
		panic(err)
	}
	cfg.Storage.Secrets.Keys = keys
	cfg.Webhooks = local.Webhooks{Egress: guard, Poll: 5 * time.Millisecond, Timeout: 500 * time.Millisecond}
}
