package main

import (
	"fmt"
	"os"

	"github.com/perdure/perdure/budget"
)

// ownPrices is the variable that names a table of prices that goes over the one of the program.
const ownPrices = "PERDURE_PRICES"

// readPrices is the table of prices of the program, with that of a file over it. Invalid: what is wrong with the file.
func readPrices(file string) (budget.Table, error) {
	if file == "" {
		return budget.Prices(), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return budget.Table{}, fmt.Errorf("read %s: %w", ownPrices, err)
	}
	own, err := budget.ParseTable(text)
	if err != nil {
		return budget.Table{}, fmt.Errorf("read %s, %s: %w", ownPrices, file, err)
	}
	return budget.Prices().With(own), nil
}
