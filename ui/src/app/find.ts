import { createContext, useContext } from "react";

// FindContext opens the search with a text.
export const FindContext = createContext<(text?: string) => void>(() => {});

export const useFind = () => useContext(FindContext);
