package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// pageOfSessions is the number of sessions on the first page of a list.
const pageOfSessions = 100

// measureListing measures the list of sessions through the engine: the newest sessions, and all.
// The floor reads the same rows from the same table and does nothing with them.
func measureListing(ctx context.Context, l *runner) error {
	w, err := l.world(ctx, engineRigConfig{})
	if err != nil {
		return err
	}
	defer w.close()
	sessions := l.count(100_000, 200)
	if err := w.addSessions(ctx, sessions); err != nil {
		return err
	}
	l.progressf("listing: the sessions are ready")
	db, err := w.addOtherData()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := l.list(ctx, w, db,
		listed{"list_page", pageOfSessions, min(pageOfSessions, sessions), l.count(100, 2)}); err != nil {
		return err
	}
	return l.list(ctx, w, db, listed{"list_all", 0, sessions, l.count(3, 1)})
}

// listed is a list: its figure, its limit, its number of sessions, and the number of repetitions.
type listed struct {
	name        string
	limit, want int
	rounds      int
}

// list measures one list, and its floor.
func (l *runner) list(ctx context.Context, w *engineRig, db *sql.DB, of listed) error {
	var bare, ours sample
	for range of.rounds {
		began := time.Now()
		n, err := bareSessions(ctx, db, of.want)
		bare = append(bare, time.Since(began))
		if err != nil || n != of.want {
			return fmt.Errorf("the floor read %d sessions, want %d: %w", n, of.want, err)
		}
		began = time.Now()
		found, err := w.Sessions().List(ctx, of.limit)
		ours = append(ours, time.Since(began))
		if err != nil && ctx.Err() == nil {
			l.report.missing(of.name, err) // the store may refuse long lists, which is a result, too
			return nil
		}
		if err != nil || len(found) != of.want {
			return fmt.Errorf("%d sessions were listed, want %d: %w", len(found), of.want, err)
		}
	}
	l.report.latencies("floor_"+of.name, bare)
	l.report.latencies(of.name, ours)
	l.report.set(of.name, "sessions", float64(of.want))
	l.report.ratio(of.name, "floor_"+of.name, "p50_us", "floor_p50_ratio")
	return nil
}

// addSessions creates idle sessions without events.
func (w *engineRig) addSessions(ctx context.Context, n int) error {
	for left := n; left > 0; left -= filledAtOnce {
		err := w.store.InTx(ctx, func(tx store.Tx) error {
			for range min(left, filledAtOnce) {
				id := core.NewID[perdure.SessionID]()
				err := tx.Sessions().Create(store.Session{ID: id, Title: "a session of the list",
					Status: perdure.SessionStarted, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill the store: %w", err)
		}
	}
	return nil
}

// addOtherData opens a read-only connection to the world's database without its store.
func (w *engineRig) addOtherData() (*sql.DB, error) {
	driver, source := "pgx", w.cfg.URL
	if source == "" {
		at := url.URL{Scheme: "file", Path: filepath.Join(w.cfg.Dir, "perdure.db"), RawQuery: "mode=ro"}
		driver, source = "sqlite", at.String()
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("open the database without the store: %w", err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// bareSessions reads the rows of the newest sessions and returns their number.
func bareSessions(ctx context.Context, db *sql.DB, limit int) (n int, err error) {
	rows, err := db.QueryContext(ctx, floorSessions, limit)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, parent, root, forked, title, status string
		var last, created, updated int64
		if err := rows.Scan(&id, &parent, &root, &forked, &title, &status, &last, &created, &updated); err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}
