// All views, in the order of the navigation; docs/architecture.md says how to add one.

import inspect, { ofProduct } from "./inspect.js";
import product from "./product.js";
import products from "./products.js";
import start from "./start.js";

export const ALL = [inspect, ofProduct, products, product, start];
