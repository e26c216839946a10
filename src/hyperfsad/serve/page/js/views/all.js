// All views, in the order of the navigation; docs/architecture.md says how to add one.

import connections from "./connections.js";
import history from "./history.js";
import inspect, { ofProduct } from "./inspect.js";
import inspection from "./inspection.js";
import live, { liveOf } from "./live.js";
import product from "./product.js";
import products from "./products.js";
import shift from "./shift.js";
import start from "./start.js";
import users from "./users.js";
import trends, { trendsOf } from "./trends.js";

export const ALL = [inspect, ofProduct, live, liveOf, history, inspection, trends, trendsOf, shift, products, product, connections, start, users];
