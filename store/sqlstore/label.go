package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of labels. The session's row holds all its labels; the rows of session_label are
// the index by which sessions are found.
const (
	saveLabels   = `UPDATE session SET labels = $2, updated_us = $3 WHERE id = $1`
	insertLabel  = `INSERT INTO session_label (session_id, name, value) VALUES ($1, $2, $3)`
	removeLabels = `DELETE FROM session_label WHERE session_id = $1`
	withLabel    = `id IN (SELECT session_id FROM session_label WHERE name = $%d)`
	withValue    = `id IN (SELECT session_id FROM session_label WHERE name = $%d AND value = $%d)`
)

// listMatching returns the query for sessions by labels, status, lineage and place, with its
// arguments.
// The number of different query texts is bounded, because the number of labels in a filter is.
func listMatching(filter store.SessionFilter) (query string, args []any) {
	args = []any{orAll(filter.Limit)}
	var terms []string
	add := func(text string, values ...any) {
		places := make([]any, len(values))
		for i, v := range values {
			args = append(args, v)
			places[i] = len(args)
		}
		terms = append(terms, fmt.Sprintf(text, places...))
	}
	if filter.OneOrg {
		add(`org = $%d`, filter.Org)
	}
	if filter.Status != "" {
		add(`status = $%d`, filter.Status)
	}
	if filter.Roots {
		add(`parent_id = ''`)
	}
	if filter.After.ID != "" {
		add(`(created_us, id) < ($%d, $%d)`, micros(filter.After.CreatedAt), filter.After.ID)
	}
	for _, term := range filter.Labels {
		key, value, exact := term.Parts()
		if exact {
			add(withValue, key, bytesOf(value))
		} else {
			add(withLabel, key)
		}
	}
	return `SELECT ` + sessionColumns + ` FROM session WHERE ` + strings.Join(terms, ` AND `) + newestFirst, args
}

// encodeLabels encodes labels for a row; no labels are no bytes.
func encodeLabels(labels perdure.Labels) ([]byte, error) {
	if len(labels) == 0 {
		return []byte{}, nil
	}
	if err := labels.Check(); err != nil {
		return nil, err
	}
	return encode(labels)
}

func (tx sessionStore) SetLabels(id perdure.SessionID, labels perdure.Labels) error {
	text, err := encodeLabels(labels)
	if err != nil {
		return fmt.Errorf("set labels of session %s: %w", id, err)
	}
	n, err := tx.exec(saveLabels, id, text, micros(tx.Now()))
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	if err == nil {
		_, err = tx.exec(removeLabels, id)
	}
	if err == nil {
		err = tx.addLabels(id, labels)
	}
	return wrap(err, "set labels of session %s", id)
}

// addLabels adds the rows of labels; there must be none.
func (tx *Tx) addLabels(id perdure.SessionID, labels perdure.Labels) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, err := tx.exec(insertLabel, id, key, bytesOf(labels[key])); err != nil {
			return err
		}
	}
	return nil
}
