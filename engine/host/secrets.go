package host

import (
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
)

// Secrets configures the encryption of sessions' secrets, for the store's own ports (SE1 to SE4).
// Without keys, requests for secrets fail with Unavailable.
type Secrets struct {
	Keys   *secret.Keyring // nil: there are no secrets
	NoKeys string          // explains why Keys is nil, for the error of requests; empty: there is no keyring
	Known  *redact.Set     // receives decrypted values, so that logs mask them (RD5); nil: none are collected
}

// ports configures the store's own ports.
func (e *Host) ports(cfg Config) sessionport.Config {
	return sessionport.Config{
		Store: cfg.Store, Blobs: cfg.Storage.Blobs, SQL: cfg.Storage.SQL, NextRequest: e.nextModelRequest, Log: cfg.Log,
		Keys: cfg.Storage.Secrets.Keys, NoKeysReason: cfg.Storage.Secrets.NoKeys, LogMask: cfg.Storage.Secrets.Known,
		Utility:   sessionport.Utility{Model: cfg.Utility.Model, Name: cfg.Utility.Name, MaxTokens: cfg.Utility.MaxTokens},
		FilesHome: filesHome(cfg), Payments: e.paymentPort(), Meter: e.meter, FreshToken: e.freshToken,
	}
}
