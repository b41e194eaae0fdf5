// Which pages the search of the site shows first, among those that have the words: how to do it, then what a key means, then why it holds.
// Sphinx reads this file (`html_search_scorer`); `docs/check_site.py` reads the two constants.

// A title at least half of which was typed is never below a page that only has the words.
const WHOLE_TITLE = 10;

// The first pattern that fits the name of a page decides; other pages get 0.
const PAGE_WEIGHTS = [
  ["^(start-here|tutorial|tutorial-.*|how-to|choose-epsilon|check-accuracy|publication|faq)$", 10],
  ["^(planning|tables|job-.*|selection|mechanisms|accounting|local|inference|distributions|schedules|glossary)$", 6],
  ["^(managers|from-suppression|gallery|batch|cluster|stores|verify|migrate/.*|interop/.*|private-regression|heavy-tailed-mean)$", 2],
  ["^(exactness.*|proofs|constant-work|literature|changelog|report|reproduce|items|mechanisms-as-experiments)$", -12],
  ["^(reference/.*|architecture|speed|platforms|releasing|memory|beside-other-tools)$", -6]
];

var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    if (kind === "title") return score + WHOLE_TITLE;
    if (kind === "index") return score;
    const fitting = PAGE_WEIGHTS.find(([pattern]) => new RegExp(pattern).test(docname));
    return score + (fitting ? fitting[1] : 0);
  },
  // What follows are Sphinx's own numbers.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
