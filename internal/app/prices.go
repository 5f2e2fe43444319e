package app

import (
	"fmt"
	"os"

	"github.com/perdure/perdure/budget"
)

// ownPrices is the variable with the file of prices that override the built-in ones.
const ownPrices = "PERDURE_PRICES"

// readPrices returns the built-in prices, overridden by those of a file. Invalid: what is wrong
// with the file.
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
