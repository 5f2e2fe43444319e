package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/access"
)

// Machine says what only the process of the server knows: about its program, its storage and its
// machine. A nil function is answered with 503. All must be safe for concurrent use.
type Machine struct {
	Build    Build
	Storage  func(context.Context) (Storage, error)
	Diagnose func(context.Context) ([]Finding, error) // the checks of doctor
	Egress   func() EgressRules
	// Verify starts a verification of all data, unless one runs, and returns its state.
	Verify       func() (Verification, error)
	Verification func() Verification // the state of the last one
}

// Build is the version of the program.
type Build struct {
	Version  string `json:"version" doc:"The version of the program; (devel) for a build from a checkout."`
	Revision string `json:"revision,omitempty" doc:"The commit of the source."`
	Date     string `json:"date,omitempty" doc:"The time of the commit."`
	Modified bool   `json:"modified,omitempty" doc:"The source differed from the commit."`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	SQLite   string `json:"sqlite,omitempty" doc:"The version of SQLite in the program."`
}

// Storage is where the data is, and how much of it there is.
type Storage struct {
	Store         string      `json:"store" enum:"sqlite,postgres"`
	Path          string      `json:"path" doc:"The data directory, on the machine of the server."`
	DatabaseBytes int64       `json:"database_bytes,omitempty" doc:"The size of the database; absent with Postgres."`
	LogBytes      int64       `json:"log_bytes,omitempty" doc:"The size of the write-ahead log of the database."`
	BlobBytes     int64       `json:"blob_bytes" doc:"The size of the files and images that are stored beside the database."`
	FreeBytes     uint64      `json:"free_bytes,omitempty" doc:"The free space of the disk; absent if it is unknown."`
	LastBackup    *LastBackup `json:"last_backup,omitempty" doc:"The last backup by perdure admin backup; absent if none is known."`
}

// LastBackup is a backup of the data directory.
type LastBackup struct {
	CreatedAt time.Time `json:"created_at"`
	Path      string    `json:"path" doc:"The folder of the backup, when it was made."`
	SizeBytes int64     `json:"size_bytes"`
}

// Finding is the result of one check of doctor.
type Finding struct {
	Name   string `json:"name"`
	Health string `json:"health" enum:"fine,warn,bad"`
	Detail string `json:"says" doc:"What was found."`
	Fix    string `json:"fix,omitempty" doc:"What to do; absent if nothing has to be done."`
}

// EgressRules are the operator's rules for the requests of tools and webhooks.
type EgressRules struct {
	Allowed  []string `json:"allowed" doc:"If there are any, other hosts are blocked."`
	Blocked  []string `json:"blocked" doc:"Blocked, whatever else allows it."`
	Private  []string `json:"private" doc:"Private addresses that tools may reach."`
	Webhooks []string `json:"webhooks" doc:"Private addresses that webhooks may reach."`
	Broken   string   `json:"broken,omitempty" doc:"Why the rules cannot be read; all requests are then denied."`
}

// Verification is a check of all data, as by perdure admin verify. It ends with the process.
type Verification struct {
	State     string    `json:"state" enum:"none,running,intact,damaged,failed"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Sessions  int       `json:"sessions"`
	Events    int       `json:"events"`
	Calls     int       `json:"calls"`
	Tasks     int       `json:"tasks"`
	Blobs     int       `json:"blobs"`
	Audited   int       `json:"audit_entries"`
	Problems  []string  `json:"problems" doc:"What is damaged: the first 100 problems."`
	Error     string    `json:"error,omitempty" doc:"Why it failed."`
}

func (a machineHandlers) register() {
	read(a.API, operation{id: "get-version", path: "/v1/version", policy: reads, summary: "Show the version of the server's program"},
		func(context.Context, *struct{}) (*single[Build], error) {
			return &single[Build]{a.cfg.Machine.Build}, nil
		})
	read(a.API, operation{id: "get-storage", path: "/v1/storage", policy: administers, summary: "Show where the data is, its size, and its last backup"},
		func(ctx context.Context, _ *struct{}) (*single[Storage], error) {
			return ofMachine(ctx, a.cfg.Machine.Storage)
		})
	read(a.API, operation{id: "get-verification", path: "/v1/storage/verification", policy: administers, summary: "Show the last verification of all data"},
		func(ctx context.Context, _ *struct{}) (*single[Verification], error) {
			return ofMachine(ctx, infallible(a.cfg.Machine.Verification))
		})
	write(a.API, operation{
		id: "verify-storage", path: "/v1/storage/verify", policy: administers, status: http.StatusAccepted,
		summary: "Start to verify all data, unless a verification is running; it reads everything and changes nothing",
	}, body[machineAct]{optional: true}, func(ctx context.Context, _ *struct{}, _ machineAct) (*single[Verification], error) {
		var verify func(context.Context) (Verification, error)
		if start := a.cfg.Machine.Verify; start != nil {
			verify = func(context.Context) (Verification, error) { return start() }
		}
		return ofMachine(ctx, verify)
	})
	read(a.API, operation{id: "diagnose", path: "/v1/doctor", policy: administers, summary: "Check the server's machine and data directory, as perdure doctor does there"},
		func(ctx context.Context, _ *struct{}) (*page[Finding], error) {
			found, err := ofMachine(ctx, a.cfg.Machine.Diagnose)
			if err != nil {
				return nil, err
			}
			return &page[Finding]{list[Finding]{Items: found.Body}}, nil
		})
	read(a.API, operation{id: "get-egress", path: "/v1/egress", policy: administers, summary: "Show the operator's rules for the requests of tools and webhooks"},
		func(ctx context.Context, _ *struct{}) (*single[EgressRules], error) {
			return ofMachine(ctx, infallible(a.cfg.Machine.Egress))
		})
}

// machineAct is the body of a request that needs no fields.
type machineAct struct{}

// infallible returns a function for ofMachine; nil for nil.
func infallible[T any](get func() T) func(context.Context) (T, error) {
	if get == nil {
		return nil
	}
	return func(context.Context) (T, error) { return get(), nil }
}

// ofMachine answers a question about the machine of the server. A machine serves all orgs, so that
// only the administrators of the default org may ask.
func ofMachine[T any](ctx context.Context, get func(context.Context) (T, error)) (*single[T], error) {
	if principal, asks := access.PrincipalFrom(ctx); asks && principal.Org != budget.DefaultOrg {
		return nil, fmt.Errorf("%w: this is about the machine of all orgs; use a token of the org %s", perdure.Denied, budget.DefaultOrg)
	}
	if get == nil {
		return nil, fmt.Errorf("%w: this server cannot report it", perdure.Unavailable)
	}
	return singleOf(get(ctx))
}
